/** Options of `runInMemoryRanks` with which its threads run on TypeScript sources of the workspace. */
export const typescriptThreads = {
  preload: new URL('./typescript-loader.mjs', import.meta.url),
  execArgv: ['--conditions=@mtl/source'],
};
