// Package effort says how long the long loops of the tests are: crash seeds, simulations, kills, differential runs.
//
// go test hands a flag to every package, and those that do not define it fail; so the number comes from the environment:
//
//	MQSTORE_EFFORT=quick     the default: go test ./... ends within minutes
//	MQSTORE_EFFORT=full      the numbers that a release is held to
//	MQSTORE_EFFORT=race      a tenth of full and never more than quick, for go test -race
//	MQSTORE_EFFORT=endless   new seeds until shortly before the test's -timeout
//	MQSTORE_SEED=17          only this seed, in every loop over seeds
//
// A test writes its two numbers where it uses them:
//
//	for seed := range effort.Seeds(t, 20, 5000) {
//		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { … rand.New(rand.NewPCG(seed, 0)) … })
//	}
package effort
