import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runGuide } from './run-guide.mjs';

const folder = fileURLToPath(new URL('../../docs/guides', import.meta.url));
const files = readdirSync(folder).filter((name) => name.endsWith('.md'));
const maximumLines = 200;

describe.each(files)('docs/guides/%s', (name) => {
  const path = join(folder, name);

  // takes seconds on two free cores, minutes on busy ones
  it('does what it shows', () => runGuide({ path }), 600_000);

  it('is short, states its time and is listed', () => {
    const text = readFileSync(path, 'utf8');
    expect(text.split('\n').length - 1).toBeLessThanOrEqual(maximumLines);
    if (name === 'README.md') return;
    expect(text).toMatch(/^\*\*Time\.\*\* [^\n]*\d+ seconds/m);
    expect(readFileSync(join(folder, 'README.md'), 'utf8')).toContain(`](${name})`);
  });
});
