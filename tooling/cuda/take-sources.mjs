/**
 * Completes a bundle that was made for a checkout: copies the tracked files that the bundle leaves out.
 * node take-sources.mjs CHECKOUT
 * Ends with status 2 if any of the files is missing in the checkout. Files that have changed since the bundle
 * was made are copied and named: the tests use the changed files, but the builds in the bundle were made from
 * the old files.
 */
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Returns the digest of each file in `files`, whose paths are relative to `root`. */
export function computeDigests(root, files) {
  const computeDigest = (file) =>
    createHash('sha256')
      .update(readFileSync(join(root, file)))
      .digest('hex')
      .slice(0, 16);
  return Object.fromEntries(files.map((file) => [file, computeDigest(file)]));
}

/**
 * Copies the files that have entries in `digests` from a checkout to a bundle.
 * @returns the files that are missing in the checkout (if there are any, nothing is copied), and the files
 * that differ
 */
export function takeSources({ checkout, bundle, digests }) {
  const files = Object.keys(digests);
  const missing = files.filter((file) => !existsSync(join(checkout, file)));
  if (missing.length > 0) return { missing, changed: [] };
  const found = computeDigests(checkout, files);
  for (const file of files) {
    mkdirSync(dirname(join(bundle, file)), { recursive: true });
    cpSync(join(checkout, file), join(bundle, file));
  }
  return { missing, changed: files.filter((file) => found[file] !== digests[file]) };
}

const isProgram =
  process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
if (isProgram) {
  const bundle = dirname(fileURLToPath(import.meta.url));
  const [checkout = dirname(bundle)] = process.argv.slice(2);
  const digests = JSON.parse(readFileSync(join(bundle, 'sources.json'), 'utf8'));
  const { missing, changed } = takeSources({ checkout, bundle, digests });
  if (missing.length > 0) {
    console.error(
      `error[MTL_BUNDLE]: ${checkout} lacks ${missing.length} files of the checkout that the bundle was made in, such as ${missing[0]}\n  remedy: unpack the bundle in the root of that checkout, or set MTL_CHECKOUT to it`,
    );
    process.exit(2);
  }
  if (changed.length > 0) {
    console.error(
      `note: ${changed.length} files have changed since the bundle was made: ${changed.join(', ')}`,
    );
  }
}
