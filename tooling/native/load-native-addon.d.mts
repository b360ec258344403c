export interface NativeAddonOptions<Addon> {
  /** The folder of the package, which holds its package.json. */
  readonly directory: string;
  /** The name of the addon's file, such as mtl_kernels.node. */
  readonly file: string;
  /** A file to load in place of any other. */
  readonly explicit: string | undefined;
  /** The command that compiles the addon. */
  readonly command: string;
  /** What the command needs, in words. */
  readonly needs: string;
  /** Throws where an addon that was loaded cannot be used. */
  readonly accept?: (addon: Addon) => void;
}

export interface LoadedAddon<Addon> {
  readonly addon: Addon;
  /** The file that it was loaded from. */
  readonly path: string;
}

export interface MissingAddon {
  readonly addon?: undefined;
  /** What was tried, and why it failed: one line each. */
  readonly failures: readonly string[];
  readonly remedy: string;
}

/** The addon of a package, from the first place that has one; see load-native-addon.mjs. */
export declare function loadNativeAddon<Addon>(
  options: NativeAddonOptions<Addon>,
): LoadedAddon<Addon> | MissingAddon;
