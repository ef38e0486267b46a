package github

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestG02DeliveryID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in  string
		err error
	}{
		{"72d3162e-cc78-11e3-81ab-4c9367dc0958", nil},
		{"g1", nil},
		{strings.Repeat("a", 128), nil},
		{"", ErrMissingDelivery},
		{"   ", ErrInvalidDelivery},
		{strings.Repeat("a", 129), ErrInvalidDelivery},
		{strings.Repeat("a", 300), ErrInvalidDelivery},
		{"a.b>*", ErrInvalidDelivery},
		{"a\n", ErrInvalidDelivery},
		{"\n", ErrInvalidDelivery},
		{"-a", ErrInvalidDelivery},
		{"_a", ErrInvalidDelivery},
		{"a:b", ErrInvalidDelivery},
		{"aé", ErrInvalidDelivery},
	} {
		id, err := ParseDeliveryID(tt.in)
		require.ErrorIs(t, err, tt.err, "%q", tt.in)
		if tt.err == nil {
			require.Equal(t, tt.in, string(id))
		} else {
			require.Empty(t, id)
		}
	}
}

func TestDeliveryIDAlphabet(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	for c := range 256 {
		for _, s := range []string{string([]byte{byte(c)}), string([]byte{'a', byte(c)}), string([]byte{'a', byte(c), 'a'})} {
			_, err := ParseDeliveryID(s)
			require.Equal(t, form.MatchString(s) && !strings.HasSuffix(s, "\n"), err == nil, "%q", s)
		}
	}
}

func TestG07FormPayload(t *testing.T) {
	t.Parallel()
	const json = `{"action":"a b+c&d=e%\u0041é😊"}`
	form := "x=1&payload=" + url.QueryEscape(json) + "&payload=second"
	for _, ct := range []string{
		"application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-8",
		"Application/X-WWW-Form-Urlencoded ;charset=UTF-8",
	} {
		body := []byte(form)
		got, err := Payload(ct, body)
		require.NoError(t, err)
		require.Equal(t, json, string(got))
		require.Equal(t, form, string(body), "the signed bytes stay as they are")
	}
	for _, ct := range []string{"application/json", "", "text/plain", "application/json; charset=utf-8"} {
		got, err := Payload(ct, []byte(json))
		require.NoError(t, err)
		require.Equal(t, json, string(got))
	}
}

func TestG07BadForms(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "a=b", "payloads=x", "payload=%", "payload=%4", "payload=%zz", "xpayload=1"} {
		_, err := Payload(formType, []byte(body))
		require.ErrorIs(t, err, ErrParse, "%q", body)
		require.NotEqual(t, ErrParse.Error(), err.Error(), "it says why")
	}
}
