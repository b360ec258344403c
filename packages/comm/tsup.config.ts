import { library } from '@mtl/tooling/tsup';

// worker threads start with rank-thread-entry, which imports the file rank-thread next to it; processes start
// with local-rank-entry; build-addon is the command that compiles the addon, and contains its own copy of
// tooling, so that it works in an installed package
export default library({
  index: 'src/index.ts',
  'internal/index': 'src/internal/index.ts',
  launched: 'src/launched.ts',
  launcher: 'src/launcher.ts',
  'testing/index': 'src/testing/index.ts',
  'testing/rank-thread': 'src/testing/rank-thread.ts',
  'testing/rank-thread-entry': 'src/testing/rank-thread-entry.mjs',
  'testing/local-rank': 'src/testing/local-rank.ts',
  'testing/local-rank-entry': 'src/testing/local-rank-entry.mjs',
  'build-addon': 'native/build-addon.mjs',
});
