import { entryPoints, library } from '@mtl/tooling/tsup';

// Worker threads are files of their own. GPT-2's vocabulary is a fiftieth of the package that it comes from.
export default library(
  [
    ...entryPoints(),
    'src/corpora/tokenize-worker.ts',
    'src/corpora/parquet-worker.ts',
    'src/loading/batch-worker.ts',
  ],
  { bundles: ['oniguruma-parser', 'oniguruma-to-es'] },
);
