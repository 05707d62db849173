package main

import (
	"fmt"
	"runtime/debug"
)

// version is what a report of a fault should name: module version, commit, Go and system.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "mqstore (no build information)"
	}
	set := map[string]string{}
	for _, s := range b.Settings {
		set[s.Key] = s.Value
	}
	v := "mqstore " + b.Main.Version
	if c := set["vcs.revision"]; c != "" {
		v += " commit " + c
		if set["vcs.modified"] == "true" {
			v += " with changes"
		}
	}
	return fmt.Sprintf("%s, %s %s/%s", v, b.GoVersion, set["GOOS"], set["GOARCH"])
}
