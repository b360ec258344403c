/**
 * The export conditions with which tests import the packages of the workspace. By default, they select the
 * sources, which are always up to date. If `npm test` has just built everything, it sets MTL_TEST_BUILDS, and
 * no condition is set: processes that tests start then run on builds, as for users, and start in a third of
 * the time.
 */
export const workspaceConditions = process.env.MTL_TEST_BUILDS === undefined ? ['@mtl/source'] : [];
