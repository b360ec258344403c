const isFast = () => process.env.MTL_TEST_SUITES === 'fast';

/**
 * Cases of a parametrised test that only `npm test -- --all` runs: none where `npm test` runs without it. The
 * tag `whole` does this for a test or a describe.
 *
 * @template {readonly unknown[]} T
 * @param {T} cases
 * @returns {T | readonly []}
 */
export const inWholeRuns = (...cases) => (isFast() ? [] : cases);

/**
 * A number of cases: `whole` where `npm test -- --all` or vitest alone runs, `fast` where `npm test` does.
 *
 * @param {{ readonly whole: number, readonly fast: number }} numbers
 * @returns {number}
 */
export const numberInRuns = ({ whole, fast }) => (isFast() ? fast : whole);
