import { entryPoints, library } from '@mtl/tooling/tsup';

// Worker threads have separate entry files.
export default library([
  ...entryPoints(),
  'src/corpora/tokenize-worker.ts',
  'src/corpora/parquet-worker.ts',
  'src/loading/batch-worker.ts',
]);
