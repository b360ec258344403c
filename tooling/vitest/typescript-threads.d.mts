export declare const typescriptThreads: { readonly preload: URL; readonly execArgv: readonly string[] };
export declare const typescriptFlags: readonly string[];
export declare const workspaceFlags: readonly string[];
export declare function rankThreads(url: URL): {
  readonly module: URL;
  readonly preload?: URL;
  readonly execArgv: readonly string[];
};
export declare function rankModule(url: URL): URL;
