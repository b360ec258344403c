import { entryPoints, library } from '@mtl/tooling/tsup';

// each worker thread is a separate entry point
export default library([
  ...entryPoints(),
  'src/corpora/tokenize-worker.ts',
  'src/corpora/parquet-worker.ts',
  'src/loading/batch-worker.ts',
]);
