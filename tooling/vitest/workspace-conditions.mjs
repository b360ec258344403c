/**
 * The export conditions with which tests import the workspace's packages. By default, they select the
 * sources, which are always up to date. After `npm test` has built everything, it sets MTL_TEST_BUILDS, and
 * no condition is set: the processes that tests start then run on builds, as for users, and start in a third
 * of the time.
 */
export const workspaceConditions = process.env.MTL_TEST_BUILDS === undefined ? ['@mtl/source'] : [];
