import { workspaceConditions } from './workspace-conditions.mjs';

const preload = new URL('./typescript-loader.mjs', import.meta.url);
const execArgv = workspaceConditions.map((condition) => `--conditions=${condition}`);

/** Options of `runInMemoryRanks` with which its threads run TypeScript and find the packages of the workspace. */
export const typescriptThreads = { preload, execArgv };

/** The same for a process: flags of Node. */
export const typescriptFlags = [...execArgv, '--import', preload.href];
