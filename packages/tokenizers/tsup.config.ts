import { entryPoints, library } from '@mtl/tooling/tsup';

// GPT-2's vocabulary is a fiftieth of the package that it comes from.
export default library(entryPoints(), {
  bundles: ['oniguruma-parser', 'oniguruma-to-es'],
});
