import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { entryPoints, library } from '@mtl/tooling/tsup';

/** GPT-2's vocabulary is bundled, a fiftieth of the package that it comes from. */
function copyLicenses(build: string): void {
  copyFileSync('node_modules/gpt-tokenizer/LICENSE', join(build, 'LICENSE-gpt-tokenizer.txt'));
}

// Worker threads are files of their own.
export default library(
  [
    ...entryPoints(),
    'src/corpora/tokenize-worker.ts',
    'src/corpora/parquet-worker.ts',
    'src/loading/batch-worker.ts',
  ],
  { addFiles: copyLicenses },
);
