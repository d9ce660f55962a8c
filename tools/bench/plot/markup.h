// Text as it may stand in HTML and SVG, whatever is in it: names of files, hosts and sides come
// from elsewhere. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace reel::bench {

// For element content and for attributes in double quotes. What is not UTF-8, control characters
// and characters that turn the direction of writing become U+FFFD, so that a name can neither leave
// its place nor look like something else.
std::string EscapeMarkup(std::string_view text);

// A number for a coordinate: two decimals at most; 0 for what is not finite.
std::string Coordinate(double value);

}  // namespace reel::bench
