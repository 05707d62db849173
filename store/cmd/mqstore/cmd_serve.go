package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"github.com/mqstore/mqstore/store"
)

type serveCmd struct {
	Config string `name:"config" required:"" placeholder:"FILE" help:"The broker's .properties file, as RocketMQ has it."`
	Admin  string `name:"admin" placeholder:"ADDR" help:"host:port of health and stats over HTTP, without authentication (default: loopback, at listenPort-1)."`
	Bind   string `name:"bind" placeholder:"HOST" help:"Listen for slaves here (default: brokerIP2 and brokerIP1 of the file; loopback where it has none). 0.0.0.0 is every interface."`
	Master string `name:"master" placeholder:"ADDR" help:"A slave's master, as host:listenPort, to copy topics and offsets from, where no name server tells (default: haMasterAddress with the port below it)."`
}

func (*serveCmd) Help() string {
	return `Opens the store of a broker's .properties file and takes the part in replication that brokerRole says: a master serves its log to slaves at haListenPort (default listenPort+1), and topics, consumer offsets, delay offsets and subscription groups, from config/, at listenPort and listenPort-2; a slave follows haMasterAddress, or the master that the name servers of namesrvAddr know, and copies both. Either side may be a broker of RocketMQ 4.9.8.

These ports know no authentication, so they are on loopback unless the file names brokerIP1 and brokerIP2, or --bind an address. The node answers no producers and no consumers, and registers no topics. Expired segments are deleted as fileReservedTime, deleteWhen, diskMaxUsedSpaceRatio and cleanFileForciblyEnable say, with 4.9.8's defaults: of a copy that is to keep everything set them.

The extended protocol between two of this engine (mutual TLS, a shared token, a handshake that finds a log that is not the master's, checksums) has keys of its own in the file, which RocketMQ ignores: mqstore.ha.cert, .key, .ca and .tokenFile on both sides; mqstore.ha.listen (host:port) where slaves may connect, mqstore.ha.master on a slave; mqstore.ha.compress, mqstore.ha.resyncFrom=firstSegment|lastSegment of a slave with an empty log; mqstore.ha.classic=false for no other listener. mqstore.ha.reportFlushed=true makes a slave acknowledge what is on its disk, mqstore.ha.requiredAcks=N lets a SYNC_MASTER wait for N slaves.

POST /role?role=SYNC_MASTER makes a slave the master while it runs, POST /role?role=SLAVE&master=HOST:PORT the reverse, POST /master?address=HOST:PORT changes whom it follows; metadata=HOST:PORT adds where metadata is copied from. They are taken from this machine only, and last until the process ends. Promote only when the old master is stopped, and let it come back as a slave, with an empty directory if it had more than the slave.

GET /healthz is 200 "ok", or 503 and why; GET /stats is one JSON object, with the lag of each slave. Keys of the file without effect are named on stderr, where the log goes too. SIGTERM and SIGINT close the store properly, exit code 0; a second one kills.`
}

func (*serveCmd) Examples() string {
	return `  mqstore serve --config conf/2m-2s-async/broker-a.properties
  mqstore serve --config broker-a-s.properties --admin 127.0.0.1:8080
  curl -s http://127.0.0.1:10910/stats | jq '.ha.slaves[] | .lag, .lagTime'
  curl -s -X POST 'http://127.0.0.1:10920/role?role=SYNC_MASTER'`
}

func (c *serveCmd) Run(e *env) error {
	o, b, ignored, err := readConfig(c.Config)
	if err != nil {
		return err
	}
	for _, k := range ignored {
		e.note("note: %s: %s", c.Config, printable(k.String()))
	}
	p, err := c.plan(o, b)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Config, err)
	}
	for _, w := range p.warnings {
		e.note("WARNING: %s", printable(w))
	}
	p.log = hclog.New(&hclog.LoggerOptions{Output: e.stderr, Level: hclog.Info})
	n, err := startNode(p)
	if err != nil {
		return explain(b.StorePathRootDir, err)
	}
	st := n.store.Load().Stats()
	e.printf("%s, %v with brokerId %d, in %s\n", printable(p.broker.Name), p.options.Role, p.broker.ID, printable(p.broker.StorePathRootDir))
	e.printf("  log       physical offsets %d to %d\n", max(st.MinPhyOffset, 0), max(st.MaxPhyOffset, 0))
	e.printf("  slaves    %s\n", orDash(st.HA.ListenAddress))
	if st.HA.ExtendedAddress != "" {
		e.printf("  with TLS  %s\n", st.HA.ExtendedAddress)
	}
	if p.options.Role == store.Slave {
		e.printf("  master    %s\n", orDash(st.HA.Following.Master))
	} else {
		e.printf("  metadata  %s and %s\n", n.part.Load().main.Addr(), n.part.Load().vip.Addr())
	}
	e.printf("  admin     http://%s/healthz and /stats\n", n.admin.Addr())
	e.printf("ready\n")
	if err := e.flush(); err != nil {
		return errors.Join(err, n.close())
	}
	<-e.ctx.Done()
	p.log.Info("stopping; a second signal kills")
	if err := n.close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	p.log.Info("stopped, the store is closed")
	return nil
}

func readConfig(path string) (store.Options, store.Broker, []store.UnknownKey, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return store.Options{}, store.Broker{}, nil, fmt.Errorf("%w: give the broker's .properties file with --config", err)
	}
	if err != nil {
		return store.Options{}, store.Broker{}, nil, err
	}
	defer f.Close()
	o, b, ignored, err := store.ReadProperties(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return o, b, ignored, err
}

// plan is what the file and the flags ask of a node, checked.
func (c *serveCmd) plan(o store.Options, b store.Broker) (nodePlan, error) {
	p := nodePlan{options: o, broker: b, adminAddr: c.Admin}
	warn := func(format string, args ...any) { p.warnings = append(p.warnings, fmt.Sprintf(format, args...)) }
	switch {
	case b.ListenPort < 3 || b.ListenPort > 65535:
		return p, fmt.Errorf("listenPort=%d: slaves ask at the port two below it, too: must be from 3 to 65535", b.ListenPort)
	case b.HAListenPort < 1 || b.HAListenPort > 65535:
		return p, fmt.Errorf("haListenPort is %d: must be from 1 to 65535 (default: listenPort+1)", b.HAListenPort)
	case b.StorePathRootDir == "":
		return p, errors.New("storePathRootDir is not set, and this user has no home directory to use instead: set it")
	case o.Role == store.Slave && b.ID == 0:
		return p, errors.New("brokerRole=SLAVE, but brokerId is 0, which is the master's: set brokerId=1 or higher")
	case o.Role != store.Slave && b.ID != 0:
		warn("brokerId=%d, but brokerRole is %v: it is 0, as in 4.9.8", b.ID, o.Role)
		p.broker.ID = 0
	}
	if p.broker.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return p, fmt.Errorf("brokerName is not set, and the machine's name, the default, is not known: %w", err)
		}
		p.broker.Name = name
	}
	if p.broker.ClusterName == "" {
		p.broker.ClusterName = "DefaultCluster"
	}
	host := func(of string) string {
		for _, h := range []string{c.Bind, of} {
			if h != "" {
				return h
			}
		}
		return "127.0.0.1"
	}
	haHost, mainHost := host(b.IP2), host(b.IP1)
	if !b.NoClassic {
		p.options.HA.ListenAddress = net.JoinHostPort(haHost, strconv.Itoa(b.HAListenPort))
	}
	p.mainAddr = net.JoinHostPort(mainHost, strconv.Itoa(b.ListenPort))
	if !isLoopback(haHost) && !b.NoClassic {
		warn("whoever reaches %s can copy the whole log: RocketMQ's replication knows no authentication. Let only slaves through the firewall", p.options.HA.ListenAddress)
	}
	if !isLoopback(mainHost) && o.Role != store.Slave {
		warn("whoever reaches %s can read topics, groups and offsets: nothing is asked for", p.mainAddr)
	}
	if p.adminAddr == "" {
		p.adminAddr = net.JoinHostPort("127.0.0.1", strconv.Itoa(b.ListenPort-1))
	}
	ahost, _, err := net.SplitHostPort(p.adminAddr)
	if err != nil {
		return p, fmt.Errorf("--admin %s: must be host:port", p.adminAddr)
	}
	if ahost == "" {
		p.adminAddr = net.JoinHostPort("127.0.0.1", p.adminAddr[1:])
	} else if !isLoopback(ahost) {
		warn("whoever reaches %s sees health and stats: nothing is asked for", p.adminAddr)
	}
	if o.Role == store.Slave {
		if p.master, err = c.masterOf(o); err != nil {
			return p, err
		}
		if o.HA.MasterAddress == "" && b.NamesrvAddr == "" && !b.Extended.Configured() {
			warn("brokerRole=SLAVE, but neither haMasterAddress nor namesrvAddr is set: this slave follows nobody")
		}
	}
	if p.options.HA.Extended, err = extendedOf(&b.Extended, o.Role, warn); err != nil {
		return p, err
	}
	if p.options.HA.Extended != nil {
		p.options.HA.MasterAddress = b.Extended.MasterAddress
		if o.HA.MasterAddress != "" {
			warn("haMasterAddress=%s is where metadata is copied from, at the port below it; the log comes from mqstore.ha.master", o.HA.MasterAddress)
		}
	}
	if b.NamesrvAddr != "" {
		p.register = true
		advertise := func(key, ip, bound string) (string, error) {
			if ip == "" {
				ip = bound
			}
			if a := net.ParseIP(ip); a != nil && a.IsUnspecified() || isLoopback(ip) && !onlyLoopback(b.NamesrvAddr) {
				return "", fmt.Errorf("namesrvAddr=%s would be told that this broker is at %s, where no other machine finds it: set %s to this machine's address", b.NamesrvAddr, ip, key)
			}
			return ip, nil
		}
		ip1, err := advertise("brokerIP1", b.IP1, mainHost)
		if err != nil {
			return p, err
		}
		ip2, err := advertise("brokerIP2", b.IP2, haHost)
		if err != nil {
			return p, err
		}
		p.brokerAddr = net.JoinHostPort(ip1, strconv.Itoa(b.ListenPort))
		p.haServerAddr = net.JoinHostPort(ip2, strconv.Itoa(b.HAListenPort))
	}
	return p, nil
}

// masterOf is the listen address of a slave's master, as far as file and flag know it; "" = they do not.
func (c *serveCmd) masterOf(o store.Options) (string, error) {
	if c.Master != "" {
		if _, _, err := net.SplitHostPort(c.Master); err != nil {
			return "", fmt.Errorf("--master %s: must be host:port, the master's listenPort", c.Master)
		}
		return c.Master, nil
	}
	host, port, err := net.SplitHostPort(o.HA.MasterAddress)
	if err != nil {
		return "", nil
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 4 {
		return "", nil
	}
	return net.JoinHostPort(host, strconv.Itoa(n-1)), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
