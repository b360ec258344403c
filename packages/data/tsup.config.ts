import { library } from '@mtl/tooling/tsup';

// Worker threads are files of their own.
export default library([
  'src/index.ts',
  'src/workers/tokenize-worker.ts',
  'src/workers/batch-worker.ts',
  'src/workers/parquet-worker.ts',
]);
