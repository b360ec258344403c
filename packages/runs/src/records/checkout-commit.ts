import { execFileSync } from 'node:child_process';

/**
 * The commit of the git checkout that holds a directory, with `-dirty` where tracked files were changed; null
 * outside a checkout and where git is not installed.
 */
export function checkoutCommit(directory: string): string | null {
  const argv = ['-C', directory, 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    return execFileSync('git', argv, { encoding: 'utf8', timeout: 5000, stdio: [...stdio] }).trim() || null;
  } catch {
    return null;
  }
}
