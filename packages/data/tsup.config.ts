import { copyFileSync } from 'node:fs';
import { library } from '@mtl/tooling/tsup';

// Worker threads are files of their own.
const config = library([
  'src/index.ts',
  'src/workers/tokenize-worker.ts',
  'src/workers/batch-worker.ts',
  'src/workers/parquet-worker.ts',
]);

/** GPT-2's vocabulary is bundled, a fiftieth of the package that it comes from. */
async function copyLicenses() {
  copyFileSync('node_modules/gpt-tokenizer/LICENSE', 'dist/LICENSE-gpt-tokenizer.txt');
}

export default { ...config, onSuccess: copyLicenses };
