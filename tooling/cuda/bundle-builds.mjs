/**
 * Returns the folder of @mtl/kernels in which the CUDA library is built: for all architectures, or for one,
 * such as `90a`.
 */
export const cudaBuildFolder = (architecture) =>
  architecture === undefined ? 'build/Cuda' : `build/Cuda-${architecture}`;

/**
 * Folder of @mtl/kernels in which a bundle's addon is built: without oneDNN, whose library is as large as
 * half of Node, and which multiplies nothing on a GPU.
 */
export const kernelsBuildFolder = 'build/Bundle';
export const kernelsBuildArguments = ['--build-dir', kernelsBuildFolder, '-DMTL_ONEDNN=OFF'];

/** Returns the arguments of build-native.mjs with which the CUDA library is compiled. */
export const cudaBuildArguments = (architecture) => [
  ...['--build-dir', cudaBuildFolder(architecture), '-DMTL_CUDA=ON'],
  ...(architecture === undefined ? [] : [`-DMTL_CUDA_ARCHITECTURES=${architecture}-real`]),
];
