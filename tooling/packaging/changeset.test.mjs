import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { publishedPackages, root, run } from './packed-packages.mjs';
import { copyRepository } from './repository-copy.mjs';

const names = [...publishedPackages().keys()];
const pending = readdirSync(join(root, '.changeset')).filter((file) => /^(?!README).*\.md$/.test(file));

describe('changesets', () => {
  let copy;
  beforeAll(() => {
    // changesets reads no sources, so manifests and changesets are sufficient
    const wanted = (path) =>
      /(^|\/)(package\.json|pnpm-workspace\.yaml|\.gitignore)$|^\.changeset\//.test(path);
    copy = copyRepository({ wanted });
  });
  afterAll(() => rmSync(copy.directory, { recursive: true, force: true }));

  const changeset = (...args) => run('changeset', args, { cwd: copy.directory });
  const readManifest = (name) =>
    JSON.parse(
      readFileSync(join(copy.directory, 'packages', name.slice('@mtl/'.length), 'package.json'), 'utf8'),
    );

  /**
   * Returns the names of the changesets that prereleases have used; undefined if the repository is not in
   * prerelease mode.
   */
  const usedInPrereleases = () => {
    const path = join(copy.directory, '.changeset', 'pre.json');
    return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).changesets : undefined;
  };

  it('status passes now, and fails on a changed package without a changeset', () => {
    const now = changeset('status', '--since=main');
    expect(now.status, now.output).toBe(0);
    copy.git('switch', '--quiet', '--create', 'change');
    writeFileSync(join(copy.directory, 'packages', 'errors', 'change.ts'), 'export {};\n');
    copy.git('add', '--all');
    copy.git('commit', '--quiet', '--message=change');
    const changed = changeset('status', '--since=main');
    expect(changed.status, changed.output).not.toBe(0);
    writeFileSync(
      join(copy.directory, '.changeset', 'a-change.md'),
      '---\n"@mtl/errors": patch\n---\n\nA change.\n',
    );
    copy.git('add', '--all');
    copy.git('commit', '--quiet', '--message=changeset');
    const described = changeset('status', '--since=main');
    expect(described.status, described.output).toBe(0);
  });

  it('version gives all packages one new version, writes changelogs and uses the changesets up', () => {
    const before = new Map(names.map((name) => [name, readManifest(name).version]));
    const { status, output } = changeset('version');
    expect(status, output).toBe(0);
    const versions = new Set(names.map((name) => readManifest(name).version));
    expect([...versions]).toHaveLength(1);
    for (const name of names) {
      expect(readManifest(name).version).not.toBe(before.get(name));
      const changelog = join(copy.directory, 'packages', name.slice('@mtl/'.length), 'CHANGELOG.md');
      expect(existsSync(changelog), changelog).toBe(true);
    }
    // in prerelease mode, changesets are kept until the release, and listed as used
    const used = usedInPrereleases();
    for (const file of pending) {
      const stays = existsSync(join(copy.directory, '.changeset', file));
      expect(used?.includes(file.slice(0, -'.md'.length)) ?? !stays, file).toBe(true);
    }
    expect(readFileSync(join(copy.directory, 'packages/errors/CHANGELOG.md'), 'utf8')).toContain('A change.');
  });

  it('version refuses a changeset without its header', () => {
    // what a formatter once made of changesets
    appendFileSync(
      join(copy.directory, '.changeset', 'torn.md'),
      '---\n\n## "@mtl/errors": minor\n\nText.\n',
    );
    expect(changeset('version').status).not.toBe(0);
  });
});
