{
  "conditions": [
    [
      "target_arch=='x64'",
      {
        "targets": [
          {
            "target_name": "kernels_avx2",
            "type": "static_library",
            "sources": [
              "native/cast_avx2.cc",
              "native/convert_avx2.cc",
              "native/dequantize_avx2.cc",
              "native/merge_avx2.cc",
              "native/product_avx2.cc"
            ],
            "cflags": ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-mavx2", "-mf16c"],
            "cflags_cc": ["-std=c++17"],
            "cflags_cc!": ["-std=gnu++17", "-std=gnu++20"],
            "xcode_settings": {
              "CLANG_CXX_LANGUAGE_STANDARD": "c++17",
              "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
              "MACOSX_DEPLOYMENT_TARGET": "11.0",
              "WARNING_CFLAGS": ["-Wall", "-Wextra", "-Werror"],
              "OTHER_CFLAGS": ["-mavx2", "-mf16c"]
            },
            "msvs_settings": {
              "VCCLCompilerTool": { "AdditionalOptions": ["/std:c++17", "/arch:AVX2"] }
            }
          }
        ]
      }
    ]
  ],
  "targets": [
    {
      "target_name": "safetensors-mmap",
      "sources": [
        "native/accounting.cc",
        "native/binding.cc",
        "native/cast.cc",
        "native/convert.cc",
        "native/convert_binding.cc",
        "native/dequantize.cc",
        "native/dequantize_binding.cc",
        "native/file_copy_binding.cc",
        "native/gather_ranges.cc",
        "native/handle.cc",
        "native/mapping.cc",
        "native/merge.cc",
        "native/merge_binding.cc",
        "native/prefetch_binding.cc",
        "native/processor.cc",
        "native/product.cc",
        "native/quarantine.cc",
        "native/range_reads_binding.cc",
        "native/replacement_binding.cc",
        "native/tensor_buffer.cc",
        "native/uncounted_buffer.cc"
      ],
      "include_dirs": ["<!(node -p \"require('node-addon-api').include_dir\")"],
      "defines": [
        "NAPI_VERSION=8",
        "NODE_ADDON_API_DISABLE_CPP_EXCEPTIONS",
        "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS",
        "SAFETENSORS_MMAP_VERSION=\"<!(node -p \"require('./package.json').version\")\""
      ],
      "cflags": ["-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"],
      "cflags_cc": ["-std=c++17", "-fvisibility-inlines-hidden"],
      "cflags_cc!": ["-std=gnu++17", "-std=gnu++20"],
      "xcode_settings": {
        "CLANG_CXX_LANGUAGE_STANDARD": "c++17",
        "GCC_SYMBOLS_PRIVATE_EXTERN": "YES",
        "MACOSX_DEPLOYMENT_TARGET": "11.0",
        "WARNING_CFLAGS": ["-Wall", "-Wextra", "-Werror"]
      },
      "configurations": {
        "Release": {
          "conditions": [["OS=='linux'", { "ldflags": ["-Wl,--strip-all"] }]],
          "xcode_settings": { "OTHER_LDFLAGS": ["-Wl,-S,-x"] }
        }
      },
      "conditions": [
        [
          "OS=='linux'",
          {
            "sources": [
              "native/file_copy_linux.cc",
              "native/file_descriptor_posix.cc",
              "native/guard_linux.cc",
              "native/mapped_range_posix.cc",
              "native/prefetch_linux.cc",
              "native/range_reads_linux.cc",
              "native/replacement_linux.cc"
            ],
            "ldflags": ["-Wl,-z,nodelete"]
          }
        ],
        [
          "OS=='win'",
          {
            "sources": [
              "native/file_copy_windows.cc",
              "native/file_descriptor_windows.cc",
              "native/guard_none.cc",
              "native/mapped_range_windows.cc",
              "native/prefetch_windows.cc",
              "native/replacement_windows.cc",
              "native/range_reads_none.cc",
              "native/system_handle_windows.cc",
              "native/zero_pages_windows.cc"
            ],
            "msvs_settings": { "VCCLCompilerTool": { "AdditionalOptions": ["/std:c++17"] } }
          }
        ],
        [
          "OS!='linux' and OS!='win'",
          {
            "sources": [
              "native/file_copy_posix.cc",
              "native/file_descriptor_posix.cc",
              "native/guard_none.cc",
              "native/mapped_range_posix.cc",
              "native/prefetch_posix.cc",
              "native/replacement_posix.cc",
              "native/range_reads_none.cc"
            ]
          }
        ],
        [
          "target_arch=='arm64'",
          { "sources": ["native/cast_neon.cc", "native/convert_neon.cc"] }
        ],
        ["target_arch=='x64'", { "dependencies": ["kernels_avx2"] }]
      ]
    }
  ]
}
