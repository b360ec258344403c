import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/**
 * Makes a separate folder for a test file, with functions that write files to it. `remove` deletes the
 * folder.
 */
export function testFolder(name) {
  const path = mkdtempSync(join(tmpdir(), `mtl-${name}-`));
  const write = (file, text, options) => {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), text, options);
  };
  return {
    path,
    write,
    /** Writes an executable shell script. */
    writeProgram: (file, lines) => write(file, `#!/bin/sh\n${lines}\n`, { mode: 0o755 }),
    remove: () => rmSync(path, { recursive: true, force: true }),
  };
}
