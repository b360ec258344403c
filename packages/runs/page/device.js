/**
 * Chooses where the model computes: on a GPU, if the page has the runtime for it and the browser has one that is no
 * software; else on the CPU. `?device=wasm` and `?device=webgpu` after the page's address choose instead.
 */
export const settings = await (await fetch('page.json')).json();

async function chooseDevice() {
  if (settings.gpuRuntimeBytes === undefined) return 'wasm';
  const wanted = new URLSearchParams(location.search).get('device');
  if (wanted === 'wasm') return 'wasm';
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter || (settings.dtype === 'fp16' && !adapter.features.has('shader-f16'))) return 'wasm';
  const isSoftware = adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false;
  return isSoftware && wanted !== 'webgpu' ? 'wasm' : 'webgpu';
}

export const device = await chooseDevice();
