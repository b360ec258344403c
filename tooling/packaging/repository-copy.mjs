import { appendFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { root, run } from './packed-packages.mjs';

/**
 * Copies the repository's tracked files, with uncommitted changes, if `wanted` returns true for their paths.
 * Commits them on the branch main of a new repository, which uses the tools of this checkout. The caller
 * removes the copy.
 */
export function copyRepository({ wanted = () => true } = {}) {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-copy-'));
  const list = run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard']).stdout;
  // git also lists files that are deleted but not committed
  const isThere = (path) => path !== '' && existsSync(join(root, path));
  for (const path of list.split('\0').filter((each) => isThere(each) && wanted(each))) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    cpSync(join(root, path), join(directory, path));
  }
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
  const author = ['-c', 'user.name=test', '-c', 'user.email=test@example.org', '-c', 'commit.gpgsign=false'];
  const git = (...args) => {
    const { status, output } = run('git', [...author, ...args], { cwd: directory });
    if (status !== 0) throw new Error(output);
  };
  git('init', '--quiet', '--initial-branch=main');
  // node_modules is a link here, and the folder pattern in .gitignore does not match links
  appendFileSync(join(directory, '.git', 'info', 'exclude'), 'node_modules\n');
  git('add', '--all');
  git('commit', '--quiet', '--message=copy');
  return { directory, git };
}
