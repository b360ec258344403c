export interface Platform {
  /** `process.platform` */
  readonly platform: string;
  /** `process.arch` */
  readonly arch: string;
  /** The version of glibc; undefined with another C library. */
  readonly glibc: string | undefined;
}

export interface PlatformProblem {
  readonly message: string;
  readonly expected: string;
  readonly remedy: string;
}

/** Why the native code cannot run on a platform, this one by default; undefined where it can. */
export declare function platformProblem(platform?: Platform): PlatformProblem | undefined;
