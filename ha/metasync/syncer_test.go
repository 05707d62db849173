package metasync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mqstore/mqstore/ha/remoting"
)

const (
	master    = "10.0.0.1:10911"
	masterVIP = "10.0.0.1:10909"
)

// slave is a syncer into a new directory, with a fake broker as its master.
func slave(t *testing.T, o SyncerOptions) (*Syncer, *Dir, *fakePeer, *network) {
	n, b := newNetwork(t), newFakeBroker()
	n.put(master, b)
	n.put(masterVIP, b)
	d := NewDir(t.TempDir(), DirOptions{Damaged: func(path string, err error) { t.Logf("%s: %v", path, err) }})
	o.Dial = n.Dial
	s := NewSyncer(d, o)
	t.Cleanup(func() { s.Close() })
	s.SetMaster(master)
	return s, d, b, n
}

func step(t *testing.T, s *Syncer) StepResult {
	t.Helper()
	r, err := s.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAStepCopiesTheFourTablesInTheOriginalsOrder(t *testing.T) {
	got := map[Kind]any{}
	s, d, b, _ := slave(t, SyncerOptions{Events: SyncEvents{
		Topics:             func(v TopicConfigTable) { got[KindTopics] = v },
		ConsumerOffsets:    func(v ConsumerOffsets) { got[KindConsumerOffsets] = v },
		DelayOffsets:       func(v DelayOffsets) { got[KindDelayOffsets] = v },
		SubscriptionGroups: func(v SubscriptionGroups) { got[KindSubscriptionGroups] = v },
		Failed:             func(k Kind, err error) { t.Errorf("%s: %v", k, err) },
	}})
	r := step(t, s)
	if d := cmp.Diff([]string{"10909:21", "10911:43", "10911:45", "10911:201"}, b.codes()); d != "" {
		t.Error(d)
	}
	for _, req := range b.requests() {
		if len(req.Ext) != 0 || req.Body != "" || req.header["flag"] != 0.0 {
			t.Errorf("request %d: %v, body %q", req.Code, req.header, req.Body)
		}
	}
	if len(r.Changed) != 4 || r.Master != master {
		t.Errorf("%+v", r)
	}
	topics, _, _ := d.LoadTopics()
	offsets, _, _ := d.LoadConsumerOffsets()
	delay, _, _ := d.LoadDelayOffsets()
	groups, _, _ := d.LoadSubscriptionGroups()
	if d := cmp.Diff(map[Kind]any{KindTopics: topics, KindConsumerOffsets: offsets, KindDelayOffsets: delay, KindSubscriptionGroups: groups}, got); d != "" {
		t.Errorf("events tell something else than the files: %s", d)
	}
	if topics.Topics["TopicTest"].ReadQueueNums != 4 || offsets.Offsets["TopicTest@groupA"][0] != 10 || groups.Groups["groupA"].RetryMaxTimes != 16 {
		t.Errorf("%v %v %v", topics, offsets, groups)
	}
	if text := read(t, d.Path(KindDelayOffsets)); text != delayBody {
		t.Errorf("delay offsets are not as they came: %q", text)
	}
	clear(got)
	if r := step(t, s); len(r.Changed) != 0 || len(got) != 0 {
		t.Errorf("nothing changed, but %v, events %v", r.Changed, got)
	}
	st := s.Stats()
	if st.Steps != 2 || st.Master != master || st.Table(KindTopics).Synced != 2 || st.Table(KindTopics).Changed != 1 || st.Table(KindTopics).DataVersion.Counter != 2 || st.Table(KindConsumerOffsets).LastErr != nil {
		t.Errorf("%+v", st)
	}
}

func TestAnyDifferenceOfTheDataVersionReplacesTheTable(t *testing.T) {
	topics := func(version, name string) string {
		return fmt.Sprintf(`{"dataVersion":%s,"topicConfigTable":{%q:{"topicName":%q}}}`, version, name, name)
	}
	for _, c := range []struct {
		version string
		taken   bool
	}{
		{`{"counter":5,"timestamp":100}`, false}, // the same version: the table is not looked at
		{`{"counter":6,"timestamp":100}`, true},
		{`{"counter":4,"timestamp":100}`, true}, // older
		{`{"counter":5,"timestamp":99}`, true},
		{`{"counter":5,"timestamp":100,"stateVersion":1}`, true},
		{`{"counter":5,"timestamp":100,"stateVersion":0}`, false},
		{`{}`, true},
	} {
		s, d, b, _ := slave(t, SyncerOptions{})
		b.with(map[int]func(request) *reply{
			21:  body(topics(c.version, "theirs")),
			201: body(strings.NewReplacer("topicConfigTable", "subscriptionGroupTable", "topicName", "groupName").Replace(topics(c.version, "theirs"))),
		})
		write(t, d.Path(KindTopics), topics(`{"counter":5,"timestamp":100}`, "ours"))
		write(t, d.Path(KindSubscriptionGroups), `{"dataVersion":{"counter":5,"timestamp":100},"subscriptionGroupTable":{"ours":{}}}`)
		step(t, s)
		want := []string{map[bool]string{true: "theirs", false: "ours"}[c.taken]}
		tt, _, err := d.LoadTopics()
		gg, _, err2 := d.LoadSubscriptionGroups()
		if got := slices.Collect(maps.Keys(tt.Topics)); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: topics %v, want %v; %v", c.version, got, want, err)
		}
		if got := slices.Collect(maps.Keys(gg.Groups)); err2 != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%s: groups %v, want %v; %v", c.version, got, want, err2)
		}
	}
}

func TestAMissingTableIsTakenWhateverItsVersion(t *testing.T) {
	s, d, b, _ := slave(t, SyncerOptions{})
	b.with(map[int]func(request) *reply{21: body(`{"topicConfigTable":{"T":{}}}`)})
	step(t, s)
	if tt, found, err := d.LoadTopics(); !found || err != nil || len(tt.Topics) != 1 {
		t.Errorf("%v, %v, %v", tt, found, err)
	}
}

func TestConsumerOffsetsAreMerged(t *testing.T) {
	s, d, _, _ := slave(t, SyncerOptions{})
	write(t, d.Path(KindConsumerOffsets), `{"offsetTable":{"TopicTest@groupA":{0:99,7:7},"Gone@groupB":{0:3}}}`)
	step(t, s)
	o, _, err := d.LoadConsumerOffsets()
	if d := cmp.Diff(map[string]map[int32]int64{"TopicTest@groupA": {0: 10, 1: 8}, "Gone@groupB": {0: 3}}, o.Offsets); err != nil || d != "" {
		t.Error(err, d)
	}
}

func TestOneTablesFailureDoesNotStopTheOthers(t *testing.T) {
	for k := range Kind(kinds) {
		for name, answer := range map[string]func(request) *reply{
			"error answer": func(request) *reply { return &reply{code: 1, remark: "No topic in this broker"} },
			"no body":      body(""),
			"no JSON":      body("{"),
			"no table":     body(`{"dataVersion":[],"offsetTable":[]}`),
			"silence":      func(request) *reply { return nil },
		} {
			synctest.Test(t, func(t *testing.T) {
				var failed []Kind
				s, d, b, _ := slave(t, SyncerOptions{Events: SyncEvents{Failed: func(k Kind, _ error) { failed = append(failed, k) }}})
				b.with(map[int]func(request) *reply{int(k.Code()): answer})
				began := time.Now()
				r, err := s.Step(t.Context())
				if err == nil || !strings.Contains(err.Error(), k.String()+" from master "+master) || len(r.Changed) != 3 || !slices.Equal(failed, []Kind{k}) {
					t.Errorf("%s, %s: %v; changed %v, failed %v", k, name, err, r.Changed, failed)
				}
				if took, want := time.Since(began), map[bool]time.Duration{true: 3 * time.Second}[name == "silence"]; took != want {
					t.Errorf("%s, %s: took %v, want %v", k, name, took, want)
				}
				if _, err := os.Stat(d.Path(k)); err == nil {
					t.Errorf("%s, %s: written all the same", k, name)
				}
				st := s.Stats().Table(k)
				if st.Failed != 1 || st.LastErr == nil {
					t.Errorf("%s, %s: %+v", k, name, st)
				}
				b.with(newFakeBroker().answers)
				if r := step(t, s); !slices.Equal(r.Changed, []Kind{k}) || s.Stats().Table(k).LastErr != nil {
					t.Errorf("%s, %s: not made good by the next step: %v", k, name, r.Changed)
				}
			})
		}
	}
}

func TestADamagedFileOfTheSlaveIsReplacedAndKeptAside(t *testing.T) {
	s, d, _, _ := slave(t, SyncerOptions{})
	for k := range Kind(kinds) {
		write(t, d.Path(k), "{half")
		write(t, d.Path(k)+".bak", "")
	}
	if r := step(t, s); len(r.Changed) != 4 {
		t.Errorf("changed %v", r.Changed)
	}
	for k := range Kind(kinds) {
		if read(t, d.Path(k)+".damaged") != "{half" || check(k, []byte(read(t, d.Path(k)))) != nil {
			t.Errorf("%s: now %q, aside %q", k, read(t, d.Path(k)), read(t, d.Path(k)+".damaged"))
		}
	}
}

func TestWithoutAMasterOrAsOnesOwnMasterAStepIsSkipped(t *testing.T) {
	s, _, b, n := slave(t, SyncerOptions{Self: master})
	for _, addr := range []string{"", master} {
		s.SetMaster(addr)
		if r := step(t, s); r.Master != "" {
			t.Errorf("%q: %+v", addr, r)
		}
	}
	if len(b.requests()) != 0 || n.dials(master) != 0 || s.Stats().Skipped != 2 || s.Stats().Steps != 0 {
		t.Errorf("%v, %+v", b.codes(), s.Stats())
	}
}

func TestAnAddressThatHasNoSecondPortFailsEachTableByName(t *testing.T) {
	s, _, _, _ := slave(t, SyncerOptions{})
	for _, addr := range []string{"nonsense", "host:2", "host:x", "host:70000", "host:0"} {
		s.SetMaster(addr)
		_, err := s.Step(t.Context())
		if err == nil || strings.Count(err.Error(), "from master "+addr) != kinds {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestRunStepsAfter3sAndThenEvery10sAndFollowsTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, first, n := slave(t, SyncerOptions{})
		second := newFakeBroker()
		n.put("[fe80::1]:20911", second)
		n.put("[fe80::1]:20909", second)
		s.SetMaster("")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		began := time.Now()
		go func() { ended <- s.Run(ctx) }()

		at := func(p *fakePeer) (seconds []float64) {
			for _, r := range p.requests() {
				if r.Code == 43 {
					seconds = append(seconds, r.At.Sub(began).Seconds())
				}
			}
			return seconds
		}
		time.Sleep(2 * time.Second)
		s.SetMaster(master)
		time.Sleep(22 * time.Second) // 24 s
		if d := cmp.Diff([]float64{3, 13, 23}, at(first)); d != "" {
			t.Error(d)
		}
		s.SetMaster("[fe80::1]:20911")
		time.Sleep(10 * time.Second) // 34 s
		if d := cmp.Diff([]float64{33}, at(second)); d != "" || len(at(first)) != 3 {
			t.Error(d, at(first))
		}
		if d := cmp.Diff([]string{"20909:21", "20911:43", "20911:45", "20911:201"}, second.codes()); d != "" {
			t.Error(d)
		}
		if n.dials(master) != 1 || n.dials("[fe80::1]:20911") != 1 {
			t.Errorf("dialled %d and %d times: one connection serves all steps", n.dials(master), n.dials("[fe80::1]:20911"))
		}
		n.put("[fe80::1]:20911", nil) // still connected; the master's silence is another test
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestASlowMasterDoesNotPileUpSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, b, _ := slave(t, SyncerOptions{})
		began := time.Now()
		for code, answer := range b.answers {
			b.answers[code] = func(r request) *reply {
				if time.Since(began) < 30*time.Second {
					return nil // a step takes 12 s
				}
				return answer(r)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		if err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var starts []float64
		for _, r := range b.requests() {
			if r.Code == 21 {
				starts = append(starts, r.At.Sub(began).Seconds())
			}
		}
		if d := cmp.Diff([]float64{3, 15, 27, 37, 47}, starts); d != "" {
			t.Error(d)
		}
	})
}

func TestAMasterThatIsDownIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, b, n := slave(t, SyncerOptions{})
		n.remove(master)
		n.remove(masterVIP)
		if _, err := s.Step(t.Context()); err == nil || strings.Count(err.Error(), "refused") != kinds {
			t.Error(err)
		}
		n.put(master, nil) // swallows packets
		n.put(masterVIP, nil)
		began := time.Now()
		if _, err := s.Step(t.Context()); err == nil || time.Since(began) != 12*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		n.put(master, b)
		n.put(masterVIP, b)
		step(t, s)
	})
}

// serve runs a server of src on a pair of loopback ports until the test ends.
func serve(t testing.TB, src Source, o remoting.ServerOptions) (addr string) {
	t.Helper()
	main, vip, err := ListenPair("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(src, o)
	served := make(chan error, 2)
	for _, l := range []net.Listener{main, vip} {
		go func() { served <- srv.Serve(l) }()
	}
	t.Cleanup(func() {
		srv.Close()
		for range 2 {
			if err := <-served; err != nil && !errors.Is(err, remoting.ErrClosed) { // which it is if Close was first
				t.Error(err)
			}
		}
	})
	return main.Addr().String()
}

func TestAMastersDirectoryServesASlavesOverBothPorts(t *testing.T) {
	from := NewDir(t.TempDir(), DirOptions{})
	for k, text := range v5 {
		write(t, from.Path(k), text)
	}
	addr := serve(t, from, remoting.ServerOptions{})
	to := NewDir(t.TempDir(), DirOptions{})
	s := NewSyncer(to, SyncerOptions{Timeout: time.Minute})
	defer s.Close()
	s.SetMaster(addr)
	step(t, s)
	for k, text := range v5 {
		got, err := again(k, []byte(read(t, to.Path(k))))
		if d := cmp.Diff(text, string(got)); err != nil || d != "" {
			t.Errorf("%s: %v %s", k, err, d)
		}
	}
	// The master's files change while it serves.
	write(t, from.Path(KindConsumerOffsets), `{"offsetTable":{"T@g":{0:2}}}`)
	if r := step(t, s); !slices.Equal(r.Changed, []Kind{KindConsumerOffsets}) {
		t.Errorf("%v", r.Changed)
	}
	// No whole version left: the answer says so, the slave keeps what it has.
	write(t, from.Path(KindTopics), "{")
	_, err := s.Step(t.Context())
	var ce *remoting.CodeError
	if !errors.As(err, &ce) || ce.Code != remoting.SystemError || !strings.Contains(ce.Remark, "topics.json") {
		t.Error(err)
	}
	if tt, _, err := to.LoadTopics(); err != nil || len(tt.Topics) != 1 {
		t.Errorf("%v, %v", tt, err)
	}
	// A table that fits no frame is said, too.
	small := serve(t, from, remoting.ServerOptions{MaxAnswer: 200})
	s.SetMaster(small)
	if _, err := s.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
}

func TestARequestToAServerNeedsNoBodyAndMayNotBeLarge(t *testing.T) {
	addr := serve(t, NewDir(t.TempDir(), DirOptions{}), remoting.ServerOptions{})
	c := remoting.NewClient(addr, remoting.ClientOptions{Timeout: time.Minute})
	defer c.Close()
	for _, code := range []int32{21, 43, 45, 201} {
		if resp, err := c.Call(t.Context(), remoting.NewRequest(code)); err != nil || len(resp.Body) == 0 {
			t.Errorf("%d: %v, %v", code, resp, err)
		}
	}
	if _, err := c.Call(t.Context(), remoting.NewRequest(402)); err == nil || !strings.Contains(err.Error(), "402 not supported") {
		t.Error(err)
	}
	big := remoting.NewRequest(21)
	big.Body = make([]byte, 64<<10)
	if _, err := c.Call(t.Context(), big); err == nil {
		t.Error("a request of more than 64 KiB was answered")
	}
}

func TestListenPairTakesBothPortsOrNone(t *testing.T) {
	err := listenBesideTheSecond()
	for range 20 {
		if errors.Is(err, syscall.EADDRINUSE) { // by another process, in the moment in which the first port was free
			err = listenBesideTheSecond()
		}
	}
	if err != nil {
		t.Error(err)
	}
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:1", "127.0.0.1:70000"} {
		if _, _, err := ListenPair(addr); err == nil {
			t.Errorf("listened on %s", addr)
		}
	}
}

// listenBesideTheSecond is nil if a pair is refused whose second port is taken, and the first one given back.
func listenBesideTheSecond() error {
	main, vip, err := ListenPair("127.0.0.1:0")
	if err != nil {
		return err
	}
	defer vip.Close()
	main.Close()
	m, v := main.Addr().(*net.TCPAddr).Port, vip.Addr().(*net.TCPAddr).Port
	if m != v+2 {
		return fmt.Errorf("ports %d and %d", m, v)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", m)
	switch main, vip, err := ListenPair(addr); {
	case err == nil:
		main.Close()
		vip.Close()
		return errors.New("listened with the second port taken")
	case !strings.Contains(err.Error(), "second port"):
		return fmt.Errorf("with the second port taken: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("the first port was not given back: %w", err)
	}
	return l.Close()
}
