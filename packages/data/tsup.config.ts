import { entryPoints, library } from '@mtl/tooling/tsup';

// Each worker thread is an entry point of its own.
export default library([
  ...entryPoints(),
  'src/corpora/tokenize-worker.ts',
  'src/corpora/parquet-worker.ts',
  'src/loading/batch-worker.ts',
]);
