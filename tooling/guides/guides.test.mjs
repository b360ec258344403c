import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'vitest';
import { runGuide } from './run-guide.mjs';

const folder = fileURLToPath(new URL('../../docs/guides', import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith('.md'));

describe.each(files)('docs/guides/%s', (name) => {
  // the test takes seconds on two free cores, but minutes on busy cores
  it('does what it shows', () => runGuide({ path: join(folder, name) }), 600_000);
});
