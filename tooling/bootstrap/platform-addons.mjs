import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sourceHash } from '../native/source-hash.mjs';
import { addonFoldersHere } from '../release/platform-folders.mjs';

const readJson = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined);

/**
 * Returns true if nothing needs to be compiled in the checkout `root`. This is the case if no native package
 * has a local build, and if each native package has a platform package that was compiled from the same
 * sources and is present or can be downloaded. A download is compared with platforms/NAME/released.json,
 * which was written by the release, so registries need not be trusted.
 */
export function usePlatformAddons({ root, say = console.log }) {
  const platforms = addonFoldersHere(root);
  const isLocal = ({ packageOf }) =>
    existsSync(join(root, 'packages', packageOf, 'build', 'Release', `mtl_${packageOf}.node`));
  if (platforms.length === 0 || platforms.some(isLocal)) return false;
  return platforms.every((platform) => {
    const sources = sourceHash({ root, name: platform.packageOf });
    return isBuiltFrom(platform, sources) || download({ platform, sources, say });
  });
}

const isBuiltFrom = ({ directory, packageOf }, sources) =>
  existsSync(join(directory, `mtl_${packageOf}.node`)) &&
  readJson(join(directory, 'built-from.json'))?.sources === sources;

/**
 * Downloads a platform package that was released from the sources with the hash `sources`, into the package's
 * folder in the checkout.
 */
function download({ platform, sources, say }) {
  const { name, directory } = platform;
  const released = readJson(join(directory, 'released.json'));
  if (released?.sources !== sources) return false;
  const folder = mkdtempSync(join(tmpdir(), 'mtl-platform-'));
  try {
    const flags = ['--silent', '--prefer-offline', '--fetch-retries=0', '--pack-destination', folder];
    spawnSync('npm', ['pack', ...flags, `${name}@${released.version}`], { stdio: 'ignore' });
    const [file] = readdirSync(folder);
    if (file === undefined) {
      say(`${name} ${released.version} cannot be downloaded: compiling`);
      return false;
    }
    const tarball = join(folder, file);
    const digest = createHash('sha512').update(readFileSync(tarball)).digest('base64');
    if (released.integrity !== `sha512-${digest}`) {
      say(`${name} ${released.version} is not what was released (${released.integrity}): compiling`);
      return false;
    }
    // these files of the package are already in the checkout, and are not replaced
    const kept = ['package.json', 'README.md', 'LICENSE'].map((each) => `--exclude=package/${each}`);
    const unpacked = spawnSync('tar', ['xzf', tarball, ...kept, '--strip-components=1', '-C', directory]);
    return unpacked.status === 0 && isBuiltFrom(platform, sources);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
