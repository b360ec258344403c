import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';

/** Makes a new empty directory for every test of a file, removed after it. */
export function temporaryDirectory(): { readonly path: string } {
  const holder = { path: '' };
  beforeEach(async () => {
    holder.path = await mkdtemp(join(tmpdir(), 'mtl-checkpoint-test-'));
  });
  afterEach(async () => {
    await rm(holder.path, { recursive: true, force: true });
  });
  return holder;
}
