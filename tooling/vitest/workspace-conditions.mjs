/**
 * The export conditions under which tests find the packages of the workspace: their sources, which are never
 * stale; or none, where `npm test` has just built everything and says so by MTL_TEST_BUILDS: then what a
 * package's tests start runs on builds, as it does for users, and starts in a third of the time.
 */
export const workspaceConditions = process.env.MTL_TEST_BUILDS === undefined ? ['@mtl/source'] : [];
