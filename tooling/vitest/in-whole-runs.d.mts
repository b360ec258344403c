/** Cases of a parametrised test that only `npm test -- --all` runs: none where `npm test` runs without it. */
export function inWholeRuns<T extends readonly unknown[]>(...cases: T): T | readonly [];
/**
 * A number of cases: `whole` where `npm test -- --all` or vitest alone runs, `fast` where `npm test` does.
 */
export function numberInRuns(numbers: { readonly whole: number; readonly fast: number }): number;
