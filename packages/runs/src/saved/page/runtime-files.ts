import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ConfigurationError } from '@mtl/errors';

/** The devices on which a page may compute. */
export type PageDevice = 'wasm' | 'webgpu';

/** A package and its files for a page, by their names in the page's folder `runtime`. */
interface RuntimePackage {
  readonly name: string;
  readonly license: string;
  readonly files: Readonly<Record<string, string>>;
  /** Files for one device. */
  readonly deviceFiles?: Readonly<Record<PageDevice, Readonly<Record<string, string>>>>;
}

/** The packages: transformers.js, and ONNX Runtime compiled for WebAssembly, with and without WebGPU. */
const packages: readonly RuntimePackage[] = [
  {
    name: '@huggingface/transformers',
    license: 'Apache-2.0',
    files: { 'transformers.js': 'dist/transformers.web.min.js', 'LICENSE-transformers.txt': 'LICENSE' },
  },
  {
    name: 'onnxruntime-web',
    license: 'MIT',
    files: {},
    deviceFiles: {
      wasm: {
        'onnxruntime-wasm.js': 'dist/ort.wasm.min.mjs',
        'ort-wasm-simd-threaded.mjs': 'dist/ort-wasm-simd-threaded.mjs',
        'ort-wasm-simd-threaded.wasm': 'dist/ort-wasm-simd-threaded.wasm',
      },
      webgpu: {
        'onnxruntime-webgpu.js': 'dist/ort.webgpu.min.mjs',
        'ort-wasm-simd-threaded.asyncify.mjs': 'dist/ort-wasm-simd-threaded.asyncify.mjs',
        'ort-wasm-simd-threaded.asyncify.wasm': 'dist/ort-wasm-simd-threaded.asyncify.wasm',
      },
    },
  },
];

/** The major version of transformers.js that contains the files in `packages`. */
const knownVersion = '4';

const command = `npm install @huggingface/transformers@${knownVersion}`;

/** A file to copy into a page's folder `runtime`. */
export interface RuntimeFile {
  readonly name: string;
  readonly path: string;
  /** The device that needs the file. Absent if all devices need it. */
  readonly device?: PageDevice;
}

/** The modules of a page, by the names in the library's import statements. */
export const importMap = {
  'onnxruntime-common': './onnxruntime.js',
  'onnxruntime-web/webgpu': './onnxruntime.js',
} as const;

/**
 * Finds the installed transformers.js and ONNX Runtime for the given devices, in the same way as a program in
 * `directory` would find them.
 *
 * @returns the files to copy, and the version of each package
 * @throws ConfigurationError MTL_PAGE_RUNTIME if a package is not installed, or has an unsupported version
 */
export function findRuntimeFiles(
  directory: string,
  devices: readonly PageDevice[],
): {
  readonly files: readonly RuntimeFile[];
  readonly versions: Readonly<Record<string, string>>;
} {
  const files: RuntimeFile[] = [];
  const versions: Record<string, string> = {};
  let from = directory;
  for (const { name, files: common, deviceFiles } of packages) {
    const folder = findPackage(name, from);
    if (folder === undefined) throw notInstalled(`${name} is not installed for ${directory}`);
    from = folder;
    versions[name] = String(
      (JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }).version,
    );
    const add = (wanted: Readonly<Record<string, string>>, device?: PageDevice): void => {
      for (const [file, path] of Object.entries(wanted)) {
        if (!existsSync(join(folder, path))) throw notInstalled(`${name} ${versions[name]} has no ${path}`);
        files.push({ name: file, path: join(folder, path), ...(device === undefined ? {} : { device }) });
      }
    };
    add(common);
    if (deviceFiles !== undefined) for (const device of devices) add(deviceFiles[device], device);
  }
  const { '@huggingface/transformers': version = '' } = versions;
  if (!version.startsWith(`${knownVersion}.`))
    throw notInstalled(`@huggingface/transformers is of version ${version}`);
  return { files, versions };
}

const notInstalled = (problem: string): ConfigurationError =>
  new ConfigurationError('MTL_PAGE_RUNTIME', problem, {
    expected: `@huggingface/transformers ${knownVersion}, whose files become a part of the page`,
    remedy: `run ${command} in the directory where you run this, and try again`,
  });

/**
 * Returns the folder of the package that programs in `directory` would import; undefined if the package is
 * not installed.
 */
function findPackage(name: string, directory: string): string | undefined {
  const places = createRequire(join(directory, 'index.js')).resolve.paths(name) ?? [];
  return places.map((place) => join(place, name)).find((folder) => existsSync(join(folder, 'package.json')));
}

/** Returns a string that names the packages whose files a page contains, with the licence of each package. */
export function describeLicenses(versions: Readonly<Record<string, string>>): string {
  const named = packages.map(({ name, license }) => `${name} ${versions[name]}: ${license}`);
  return [
    ...named,
    '',
    'The licence of transformers.js is in LICENSE-transformers.txt. ONNX Runtime:',
    '',
    mit,
    '',
  ].join('\n');
}

const mit = `MIT License

Copyright (c) Microsoft Corporation

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
