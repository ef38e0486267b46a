package task

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func slot(id, boot string, n int) Slot { return Slot{Task: ID(id), Attempt: n, Boot: BootID(boot)} }

func TestSlotsNext(t *testing.T) {
	t.Parallel()
	a, b, c := slot("a", "x", 1), slot("b", "x", 1), slot("c", "y", 1)
	for name, row := range map[string]struct {
		have, drop, want, outside []Slot
		limit                     int
		next                      []Slot
		got                       []bool
		same                      bool
	}{
		"the first":                     {want: []Slot{a}, limit: 1, next: []Slot{a}, got: []bool{true}},
		"full":                          {have: []Slot{a}, want: []Slot{b}, limit: 1, next: []Slot{a}, got: []bool{false}, same: true},
		"one of two":                    {have: []Slot{a}, want: []Slot{b, c}, limit: 2, next: []Slot{a, b}, got: []bool{true, false}},
		"given back and taken":          {have: []Slot{a}, drop: []Slot{a}, want: []Slot{b}, limit: 1, next: []Slot{b}, got: []bool{true}},
		"not held":                      {have: []Slot{a}, drop: []Slot{b}, limit: 1, next: []Slot{a}, same: true},
		"exactly that one is dropped":   {have: []Slot{a}, drop: []Slot{slot("a", "x", 2), slot("a", "y", 1)}, limit: 1, next: []Slot{a}, same: true},
		"held already":                  {have: []Slot{a, b}, want: []Slot{a}, limit: 1, next: []Slot{a, b}, got: []bool{true}, same: true},
		"lowered":                       {have: []Slot{a, b}, want: []Slot{c}, limit: 1, next: []Slot{a, b}, got: []bool{false}, same: true},
		"its former attempt is over":    {have: []Slot{a}, want: []Slot{slot("a", "y", 2)}, limit: 1, next: []Slot{slot("a", "y", 2)}, got: []bool{true}},
		"another claims the same":       {have: []Slot{a}, want: []Slot{slot("a", "y", 1)}, limit: 2, next: []Slot{a, slot("a", "y", 1)}, got: []bool{true}},
		"what runs without a place":     {outside: []Slot{{Task: "c", Attempt: 1}}, want: []Slot{a, b}, limit: 2, next: []Slot{a}, got: []bool{true, false}},
		"it runs itself":                {outside: []Slot{{Task: "a", Attempt: 1}}, want: []Slot{a}, limit: 1, next: []Slot{a}, got: []bool{true}},
		"what runs has a place already": {have: []Slot{c}, outside: []Slot{{Task: "c", Attempt: 1}}, want: []Slot{a}, limit: 2, next: []Slot{c, a}, got: []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := Slots{V: 1, Entries: slices.Clone(row.have)}
			next, got, changed := s.Next(row.drop, row.want, row.outside, row.limit)
			require.ElementsMatch(t, row.next, next.Entries)
			require.ElementsMatch(t, row.got, got)
			require.Equal(t, !row.same, changed)
			require.Equal(t, row.have, s.Entries, "left as it was")
		})
	}
}

// DT-95: no row of changes ever gives out more places than the limit.
func TestDT95SlotsAreNeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) Slot {
			return slot(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "task")), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "boot"), rapid.IntRange(1, 3).Draw(t, "attempt"))
		})
		some := rapid.SliceOfNDistinct(draw, 0, 5, rapid.ID[Slot])
		s, most := Slots{}, 0
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			limit := rapid.IntRange(1, 4).Draw(t, "limit")
			drop, want := some.Draw(t, "drop"), some.Draw(t, "want")
			next, got, _ := s.Next(drop, want, nil, limit)
			most = max(limit, len(s.Entries))
			require.LessOrEqual(t, len(next.Entries), most)
			for i, w := range want {
				require.Equal(t, slices.Contains(next.Entries, w), got[i])
			}
			s = next
		}
	})
}
