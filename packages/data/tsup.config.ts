import { entryPoints, library } from '@mtl/tooling/tsup';

// Worker threads are files of their own.
export default library([
  ...entryPoints(),
  'src/corpora/tokenize-worker.ts',
  'src/corpora/parquet-worker.ts',
  'src/loading/batch-worker.ts',
]);
