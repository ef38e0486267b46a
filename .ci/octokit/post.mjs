// Signs every example payload of @octokit/webhooks-examples with
// @octokit/webhooks-methods, posts it, and prints one line of JSON an answer.
//
//   node post.mjs http://127.0.0.1:3000 SECRET
import { createRequire } from 'node:module';
import { randomUUID } from 'node:crypto';
import { sign } from '@octokit/webhooks-methods';

const [base, secret] = process.argv.slice(2);
const examples = createRequire(import.meta.url)('@octokit/webhooks-examples');
const queue = (examples.default ?? examples).flatMap(({ name, examples }) => examples.map((payload) => ({ name, payload })));

async function post({ name, payload }) {
  const body = JSON.stringify(payload);
  const delivery = randomUUID();
  const response = await fetch(`${base}/webhook`, {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'x-github-event': name,
      'x-github-delivery': delivery,
      'x-hub-signature-256': await sign(secret, body),
    },
  });
  const installation = payload.installation?.id ?? 0;
  console.log(JSON.stringify({ event: name, action: payload.action, delivery, installation, status: response.status, answer: await response.json() }));
}

// Eight at a time, as GitHub does not wait for one answer either.
await Promise.all(Array.from({ length: 8 }, async () => {
  for (let next = queue.shift(); next; next = queue.shift()) await post(next);
}));
