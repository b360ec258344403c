import { library } from '@mtl/tooling/tsup';

// build-addon is the command that compiles the addon. The tooling code is bundled into it, so that the
// command also works when the package is installed
export default library({
  index: 'src/index.ts',
  'internal/index': 'src/internal/index.ts',
  'operations/matmul-choices': 'src/operations/matmul-choices.ts',
  'page/index': 'src/page/index.ts',
  'build-addon': 'native/build-addon.mjs',
});
