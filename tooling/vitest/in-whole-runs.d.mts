/** Cases of a parametrised test that only `npm test -- --all` runs: none where `npm test` runs without it. */
export function inWholeRuns<T extends readonly unknown[]>(...cases: T): T | readonly [];
