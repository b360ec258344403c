import { entryPoints, library } from '@mtl/tooling/tsup';

// GPT-2's vocabulary is bundled, because the package that contains it is fifty times as large as the
// vocabulary
export default library(entryPoints(), {
  bundles: ['oniguruma-parser', 'oniguruma-to-es'],
});
