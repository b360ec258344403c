import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildLibrary } from './build-library.mjs';

/**
 * Returns the options for building oneDNN: only matmul and reorder, OpenMP threads as in Debian's build, no
 * GPU support, and no tools.
 */
function oneDnnOptions(version) {
  // version 3.0 renamed the options, and has a graph component
  const prefix = Number.parseInt(version, 10) < 3 ? 'DNNL' : 'ONEDNN';
  return [
    ...[`-D${prefix}_LIBRARY_TYPE=STATIC`, `-D${prefix}_CPU_RUNTIME=OMP`, `-D${prefix}_GPU_RUNTIME=NONE`],
    `-D${prefix}_ENABLE_PRIMITIVE=MATMUL;REORDER`,
    ...[
      `-D${prefix}_ENABLE_WORKLOAD=INFERENCE`,
      `-D${prefix}_BUILD_TESTS=OFF`,
      `-D${prefix}_BUILD_EXAMPLES=OFF`,
    ],
    ...[`-D${prefix}_ENABLE_JIT_PROFILING=OFF`, `-D${prefix}_ENABLE_ITT_TASKS=OFF`],
    ...(prefix === 'DNNL' ? [] : ['-DONEDNN_BUILD_GRAPH=OFF']),
    // the code must run on any x86-64 processor; oneDNN generates the code for newer processors at run time
    `-D${prefix}_ARCH_OPT_FLAGS=`,
  ];
}

/**
 * Returns true for the sources of primitives that are not needed. oneDNN would always compile these sources,
 * which would take most of the time. The linked code does not refer to them. If it did, checkPlatformPackage
 * would report the missing symbols.
 */
const isOfOtherPrimitive = (path) =>
  /(^|\/)(rnn|lrn|prelu|shuffle)\/|conv(olution)?[._\d]|_convolution|deconv|pool|normalization|softmax|resampling|(ref|simple)_(shuffle|prelu|lrn|sum|concat|reduction|inner)|(gemm|x8s8s32x|brgemm|bf16)_inner_product\.|uni_(eltwise|reduction|binary|xf16_sum)/.test(
    path,
  ) && !/_list\.cpp$|\/(injectors|gemm|matmul|reorder)\//.test(path);

function leaveOutOtherPrimitives(folder) {
  const sources = join(folder, 'src', 'cpu');
  for (const path of readdirSync(sources, { recursive: true }))
    if (path.endsWith('.cpp') && isOfOtherPrimitive(path)) rmSync(join(sources, path));
}

/**
 * Builds oneDNN for the addon of @mtl/kernels. Also returns the options with which the addon's CMakeLists.txt
 * finds this build.
 */
export function portableOneDnn(directory) {
  // Debian's patches require spdlog, although only logging uses it, and logging is off
  const spdlog = join(directory, 'no-spdlog');
  mkdirSync(spdlog, { recursive: true });
  writeFileSync(join(spdlog, 'spdlogConfig.cmake'), '');
  const listOptions = (version) => [...oneDnnOptions(version), `-Dspdlog_DIR=${spdlog}`];
  const library = buildLibrary({ name: 'onednn', directory, listOptions, prepare: leaveOutOtherPrimitives });
  const { folder, prefix, version, options } = library;
  return {
    name: 'oneDNN',
    version,
    options,
    cmakeOptions: [
      `-DDNNL_INCLUDE_DIR=${join(prefix, 'include')}`,
      `-DDNNL_LIBRARY=${join(prefix, 'lib', 'libdnnl.a')}`,
    ],
    licenses: {
      'oneDNN-LICENSE': join(folder, 'LICENSE'),
      'oneDNN-NOTICES': join(folder, 'THIRD-PARTY-PROGRAMS'),
    },
  };
}
