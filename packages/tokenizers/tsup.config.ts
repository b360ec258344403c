import { entryPoints, library } from '@mtl/tooling/tsup';

// GPT-2's vocabulary is bundled, because it is only a fiftieth of the package that contains it
export default library(entryPoints(), {
  bundles: ['oniguruma-parser', 'oniguruma-to-es'],
});
