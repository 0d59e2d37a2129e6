// Judges objects as the tools of users do: kstatus of Kubernetes' cli-utils (kpt), kstatus of Flux
// (Flux, and Helm 4 with --wait), and the Lua scripts of Argo CD.
//
// Usage: health LUA-FOLDER
//
// It reads one JSON object per line from standard input, and answers each with one line:
// {"kstatus": {"status", "message"}, "flux": {"status", "message"}, "argo": {"status", "message"}}.
// LUA-FOLDER holds GROUP/KIND/health.lua, as in Argo CD's own resource_customizations. An object
// without such a file has no "argo".
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	flux "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type verdicts struct {
	Kstatus verdict  `json:"kstatus"`
	Flux    verdict  `json:"flux"`
	Argo    *verdict `json:"argo,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: health LUA-FOLDER"))
	}
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			fail(err)
		}
		all, err := judge(os.Args[1], line)
		if err != nil {
			fail(err)
		}
		if err := out.Encode(all); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "health:", err)
	os.Exit(1)
}

func judge(scripts string, text []byte) (*verdicts, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	kpt, err := status.Compute(object)
	if err != nil {
		return nil, err
	}
	helm, err := flux.Compute(object)
	if err != nil {
		return nil, err
	}
	argo, err := argo(scripts, object)
	if err != nil {
		return nil, err
	}
	return &verdicts{
		Kstatus: verdict{kpt.Status.String(), kpt.Message},
		Flux:    verdict{helm.Status.String(), helm.Message},
		Argo:    argo,
	}, nil
}

// argo runs the script of the object's kind as Argo CD does: the object is the global obj, and the
// script returns a table with status and message. Like Argo CD, it opens only the libraries for
// tables, strings and basic functions.
func argo(scripts string, object *unstructured.Unstructured) (*verdict, error) {
	kind := object.GroupVersionKind()
	script, err := os.ReadFile(filepath.Join(scripts, kind.Group, kind.Kind, "health.lua"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{{lua.LoadLibName, lua.OpenPackage}, {lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.StringLibName, lua.OpenString}} {
		open := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(open, lua.LString(library.name)); err != nil {
			return nil, err
		}
	}
	state.SetGlobal("obj", value(state, object.Object))
	if err := state.DoString(string(script)); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script of %s returns no table", kind.Kind)
	}
	status, message := answer.RawGetString("status"), answer.RawGetString("message")
	if status == lua.LNil {
		return nil, fmt.Errorf("the script of %s returns no status", kind.Kind)
	}
	if message == lua.LNil {
		message = lua.LString("")
	}
	return &verdict{status.String(), message.String()}, nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch of := of.(type) {
	case string:
		return lua.LString(of)
	case bool:
		return lua.LBool(of)
	case int64:
		return lua.LNumber(of)
	case float64:
		return lua.LNumber(of)
	case []any:
		table := state.NewTable()
		for _, item := range of {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range of {
			table.RawSetString(key, value(state, item))
		}
		return table
	default:
		return lua.LNil
	}
}
