import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { configurationJson } from './saved-configuration.js';

describe('configurationJson', () => {
  it('is plain data from which --config makes the same configuration again', () => {
    const directory = mkdtempSync(join(tmpdir(), 'mtl-configuration-'));
    try {
      for (const line of [`${small} --bf16`, '--preset gpt2-355m --train-samples 5120', '--train-iters 7']) {
        const first = configure(line);
        const path = join(directory, 'configuration.json');
        writeFileSync(path, JSON.stringify(configurationJson(first)));
        const again = configure(`--config ${path}`);
        expect(configurationJson(again).resolved).toEqual(configurationJson(first).resolved);
        expect(again.flags).toEqual(configurationJson(first).flags);
      }
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});
