/**
 * Cases of a parametrised test that only `npm test -- --all` runs: none where `npm test` runs without it. The
 * tag `whole` does this for a test or a describe.
 */
export const inWholeRuns = (...cases) => (process.env.MTL_TEST_SUITES === 'fast' ? [] : cases);
