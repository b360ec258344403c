import { library } from '@mtl/tooling/tsup';

// build-addon is the command that compiles the addon; tooling is bundled into it, so that it works when
// installed
export default library({
  index: 'src/index.ts',
  'internal/index': 'src/internal/index.ts',
  'build-addon': 'native/build-addon.mjs',
});
