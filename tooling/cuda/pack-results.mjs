import { spawnSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname } from 'node:path';

/**
 * Packs a folder into a compressed file, which is replaced atomically. A failure is only reported, because
 * the results are still in the folder.
 */
export function packResults({ folder, file }) {
  const partial = `${file}.partial`;
  mkdirSync(dirname(file), { recursive: true });
  const args = ['--create', '--gzip', '--file', partial, '--directory', dirname(folder), basename(folder)];
  const { status, stderr, error } = spawnSync('tar', args, { encoding: 'utf8' });
  // tar ends with status 1 if a log has grown while tar was reading it
  if (status === 0 || status === 1) {
    renameSync(partial, file);
    return;
  }
  rmSync(partial, { force: true });
  console.error(`note: ${file} was not written: ${error?.message ?? stderr}`);
}
