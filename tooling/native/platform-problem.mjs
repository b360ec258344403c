/**
 * The properties of a platform that determine whether the native code can run on it.
 *
 * @typedef {object} Platform
 * @property {string} platform `process.platform`
 * @property {string} arch `process.arch`
 * @property {string | undefined} glibc the version of glibc; undefined with a different C library
 */

/**
 * Returns the platform on which this process runs.
 *
 * @returns {Platform}
 */
export function thisPlatform() {
  // network interfaces are excluded, because the report would look up their names, which can take seconds
  process.report.excludeNetwork = true;
  const { glibcVersionRuntime } = process.report.getReport().header;
  return { platform: process.platform, arch: process.arch, glibc: glibcVersionRuntime };
}

/**
 * Returns the reason why the native code cannot run on a platform, with the remedy; undefined for Linux with
 * glibc on x86-64, and on arm64, which was tried under qemu only.
 *
 * @param {Platform} [given] default: this platform
 * @returns {{ readonly message: string, readonly expected: string, readonly remedy: string } | undefined}
 */
export function platformProblem({ platform, arch, glibc } = thisPlatform()) {
  const isMusl = platform === 'linux' && glibc === undefined;
  if (platform === 'linux' && (arch === 'x64' || arch === 'arm64') && !isMusl) return undefined;
  const image = '-v "$PWD":/mtl -w /mtl node:22-bookworm npm run gpt-train';
  return {
    message: `unsupported platform: ${platform} ${arch}${isMusl ? ' with musl' : ''}`,
    expected: 'Linux on x86-64 or arm64 with glibc (Debian, Ubuntu, Fedora and others; not Alpine)',
    remedy: `use a container, from the folder of the checkout: docker run --rm -it --platform linux/amd64 ${image}`,
  };
}
