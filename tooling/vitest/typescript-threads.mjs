import { workspaceConditions } from './workspace-conditions.mjs';

const preload = new URL('./typescript-loader.mjs', import.meta.url);
const execArgv = workspaceConditions.map((condition) => `--conditions=${condition}`);

/**
 * Options of `runInMemoryRanks` with which its threads run TypeScript and find the packages of the workspace.
 */
export const typescriptThreads = { preload, execArgv };

/** The same for a process: flags of Node. */
export const typescriptFlags = [...execArgv, '--import', preload.href];

/**
 * Flags of Node for a process that runs JavaScript with the packages of the workspace: on builds it needs no
 * loader, which takes as long to start as the packages.
 */
export const workspaceFlags = process.env.MTL_TEST_BUILDS === undefined ? typescriptFlags : execArgv;
