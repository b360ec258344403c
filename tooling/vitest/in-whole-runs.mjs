const isFast = () => process.env.MTL_TEST_SUITES === 'fast';

/**
 * Returns the cases of a parametrised test that only `npm test -- --all` runs; no cases in a run of `npm
 * test`. For a single test or a describe, use the tag `whole`.
 *
 * @template {readonly unknown[]} T
 * @param {T} cases
 * @returns {T | readonly []}
 */
export const inWholeRuns = (...cases) => (isFast() ? [] : cases);

/**
 * Returns a number of cases: `fast` in a run of `npm test`, `whole` with `--all` or in a run of vitest alone.
 *
 * @param {{ readonly whole: number, readonly fast: number }} numbers
 * @returns {number}
 */
export const numberInRuns = ({ whole, fast }) => (isFast() ? fast : whole);
