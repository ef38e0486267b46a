package config

import "reflect"

// RestartKeys are the keys that differ in next and that only a restart brings
// into force, dotted, in the order of Config.
func (c *Config) RestartKeys(next *Config) []string {
	return restartKeys("", reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem())
}

func restartKeys(prefix string, a, b reflect.Value) []string {
	var out []string
	for i := range a.NumField() {
		f := a.Type().Field(i)
		name := f.Tag.Get("toml")
		_, live := f.Tag.Lookup("live")
		switch {
		case name == "" || name == "-" || live:
		case f.Type.Kind() == reflect.Struct:
			out = append(out, restartKeys(prefix+name+".", a.Field(i), b.Field(i))...)
		case isList(f.Type) && a.Field(i).Len() == b.Field(i).Len(): // a part of one may be live
			for j := range a.Field(i).Len() {
				out = append(out, restartKeys(listKey(prefix+name, j)+".", a.Field(i).Index(j), b.Field(i).Index(j))...)
			}
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			out = append(out, prefix+name)
		}
	}
	return out
}
