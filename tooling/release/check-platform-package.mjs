import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { lowestGlibc } from '../native/lowest-glibc.mjs';
import { isAbove, readDynamic } from './read-dynamic.mjs';

const mebibyte = 1 << 20;
/** The maximum size of a package in bytes, because users wait for its download. */
const maximumBytes = 40e6;
/** Libraries that every machine with glibc and Node.js has (Node.js itself needs libgcc). */
const ofEveryMachine = [
  'libc.so.6',
  'libm.so.6',
  'libdl.so.2',
  'libpthread.so.0',
  'librt.so.1',
  'libgcc_s.so.1',
  'ld-linux-x86-64.so.2',
  'ld-linux-aarch64.so.1',
];
/**
 * The prefixes of symbol versions in libgomp, which is bundled, and in libgcc. They have not changed for ten
 * years.
 */
const ofKnownLibraries = new Set(['GOMP', 'OMP', 'GCC']);
const ofNode = /^(napi|node_api)_/;
const offered =
  /^(napi_register_module_v\d+|node_api_module_get_api_version_v\d+|mtl_cuda_library|mtl_gloo_api)$/;

/**
 * Returns the reasons, one line each, why a platform package's shared library would not run on every machine
 * of its platform, or would disturb other libraries in its process. `bundled` lists the files next to the
 * library.
 */
export function libraryProblems(path, { bundled = [], isOurs = true } = {}) {
  const { needed, runPath, versions, defined, missing } = readDynamic(path);
  const own = needed.filter((library) => bundled.includes(library));
  const foreign = needed.filter((library) => !ofEveryMachine.includes(library) && !own.includes(library));
  const newer = versions.filter((version) => {
    const [name, number] = version.split('_');
    return name === 'GLIBC' ? isAbove(number, lowestGlibc) : !ofKnownLibraries.has(name);
  });
  const lacking = missing.filter((name) => !ofNode.test(name));
  const extra = isOurs ? defined.filter((name) => !offered.test(name)) : [];
  return [
    ...lacking.map((name) => `${path} lacks ${name}`),
    ...foreign.map((library) => `${path} needs ${library}, which a bare machine does not have`),
    ...newer.map((version) => `${path} needs ${version}; at most GLIBC_${lowestGlibc}`),
    ...(own.length > 0 && runPath !== '$ORIGIN'
      ? [`${path} does not look for ${own.join(', ')} next to itself (${runPath ?? 'no run path'})`]
      : []),
    ...(extra.length > 0 ? [`${path} offers ${extra.length} symbols to others, such as ${extra[0]}`] : []),
  ];
}

/** Returns the problems in a platform package's manifest. */
export function manifestProblems({ name, version, os, cpu, libc, scripts = {}, ...rest }, versionOfPackage) {
  const [, platform, arch] = /-(\w+)-(\w+)$/.exec(name);
  return [
    ...(String(os) === platform ? [] : [`${name}: "os" is not ["${platform}"]`]),
    ...(String(cpu) === arch ? [] : [`${name}: "cpu" is not ["${arch}"]`]),
    ...(platform !== 'linux' || String(libc) === 'glibc' ? [] : [`${name}: "libc" is not ["glibc"]`]),
    ...(version === versionOfPackage ? [] : [`${name}: version ${version}, expected ${versionOfPackage}`]),
    ...['preinstall', 'install', 'postinstall'].flatMap((hook) =>
      scripts[hook] === undefined ? [] : [`${name}: has the install script ${hook}`],
    ),
    ...Object.keys({ ...rest.dependencies, ...rest.optionalDependencies }).map(
      (each) => `${name}: needs ${each}`,
    ),
  ];
}

/**
 * Checks a built platform package. If it has problems, prints them and ends the process. Otherwise prints the
 * package's size.
 */
export function checkPlatformPackage({ name, directory, manifest }) {
  const missing = manifest.files.filter((file) => !existsSync(join(directory, file)));
  const libraries = manifest.files.filter(
    (file) => /\.node$|\.so(\.\d+)*$/.test(file) && !missing.includes(file),
  );
  const bytes = libraries.reduce((sum, file) => sum + statSync(join(directory, file)).size, 0);
  const licenses = join(directory, 'licenses');
  const problems = [
    ...missing.map((file) => `${name}: ${file} is missing`),
    ...libraries.flatMap((file) =>
      libraryProblems(join(directory, file), { bundled: libraries, isOurs: !file.startsWith('libgomp') }),
    ),
    ...(bytes > maximumBytes
      ? [`${name}: ${(bytes / 1e6).toFixed(1)} MB, at most ${maximumBytes / 1e6}`]
      : []),
    ...(existsSync(licenses) && readdirSync(licenses).length > 0 ? [] : [`${name}: has no licences`]),
  ];
  if (problems.length > 0) throw new Error(problems.join('\n'));
  const { libraries: linked } = JSON.parse(readFileSync(join(directory, 'built-from.json'), 'utf8'));
  const versions = linked.map((library) => `${library.name} ${library.version}`).join(', ');
  console.log(
    `${name}: ${(bytes / mebibyte).toFixed(1)} MiB, ${versions || 'no library'} inside; needs glibc ${lowestGlibc}`,
  );
}
